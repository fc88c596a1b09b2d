"""Measurements: checking, importing and recording (``make bench``), and calibration on Apache Kafka."""
