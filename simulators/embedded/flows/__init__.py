"""The flow-level network: messages that share links, and collectives as flows."""
