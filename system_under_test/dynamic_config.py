"""Settings of brokers that change while they run: which may, and which hold for one broker.

``/config/brokers/N`` holds those of one broker, ``/config/brokers/<default>`` those of all (KIP-226). The first are
stronger, and both are stronger than the broker's file. What stands there and is not valid is left out, loudly: whoever
wrote it did not ask a broker.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from system_under_test.config import DYNAMIC, BrokerConfig
from system_under_test.storage.config import ConfigError, LogConfig
from system_under_test.zookeeper.configs import BROKER_DEFAULT, Configs

log = logging.getLogger(__name__)


def layers(configs: Configs, broker_id: int) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """This broker's own dynamic settings, and everybody's."""
    return configs.broker(str(broker_id)), configs.broker(BROKER_DEFAULT)


def dynamic_settings(config: BrokerConfig, configs: Configs, broker_id: int) -> dict[str, str]:
    """Those that hold for this broker."""
    own, everybodys = layers(configs, broker_id)
    found: dict[str, str] = {}
    for layer in (everybodys, own):
        for name, value in layer.items():
            problem = problem_with(config, name, value)
            if problem is None:
                found[name] = value
            else:
                log.error("dynamic setting %s=%s is left out: %s", name, value, problem)
    return found


def problem_with(config: BrokerConfig, name: str, value: str) -> str | None:
    """Why this is no dynamic setting."""
    if name not in DYNAMIC:
        return f"Cannot update these configs dynamically: {name}"
    changed = {**config.raw, name: value}
    try:
        # As a setting of the broker, and as the default of a topic that it is.
        BrokerConfig(changed)
        LogConfig.of(changed, {})
    except ConfigError as error:
        return str(error)
    return None
