"""Several hosts: who they are, and how they exchange arrays (docs/design/hosts.md)."""
