"""YAML files to frozen typed objects, every problem reported at once."""
