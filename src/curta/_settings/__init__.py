"""Settings: their names, parsers, defaults and tuning."""
