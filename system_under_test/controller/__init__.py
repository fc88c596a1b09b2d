"""The cluster's controller: one broker at a time decides who leads what, writes it to ZooKeeper and tells the others.

=================== ==================================================================================================
module              subject
=================== ==================================================================================================
controller          the one queue of events; standing for election, resigning; what admin APIs ask
election            ``/controller`` and ``/controller_epoch``
term                one controllership: recovery from ZooKeeper, and which part handles which event
context             what is known; replica assignments
store               reads, and writes that a successor's epoch fences
partition_states    the table of a partition's states; elections
replica_states      the table of a replica's states; ISRs of the dead
selectors           who leads next, as pure functions
requests, responses LeaderAndIsr, UpdateMetadata, StopReplica
channels            one queue and one connection to each broker
membership          brokers that start, fail, bounce, shut down
deletion            topics that end
reassignment        replicas that move
elections           preferred replicas, rebalance
=================== ==================================================================================================
"""

from system_under_test.controller.controller import Controller

__all__ = ["Controller"]
