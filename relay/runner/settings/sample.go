package settings

// Sample is a relay.yaml to start from. It loads without problems as it is, and its actions only print a line.
const Sample = `# relay.yaml: what may run on this machine. What is not here is refused, whatever the bridge says.
# This file and its folder must be writable by you alone.
listen: none # no port is open here: the relay joins once (drawbridge-relay join) and dials the bridge
actions:
  backup_script:
    argv: [/bin/echo, "put your backup command here"]
    timeout: 60s
  open_browser:
    argv: [/bin/echo, "put the command that opens your browser here"]
limits: { concurrent: 4, queue: 16, per_minute: 30 }
`
