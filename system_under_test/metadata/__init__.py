"""What every broker knows of the cluster: the copy that the controller's UpdateMetadata requests keep up to date."""
