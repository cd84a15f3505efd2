// Command demo runs everything on one machine: PostgreSQL, the API, the reconciler and the mock PSP. It is wiring only:
// what the demo starts, and how it stops, is in demo/supervisor.
package main

import "payonce/demo/supervisor"

func main() { supervisor.Main() }
