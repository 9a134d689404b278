"""From a program of whole arrays to that of one host (docs/design/hosts.md)."""
