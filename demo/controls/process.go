package controls

import "time"

// Process is what the page shows of a process.
type Process struct {
	PID      int
	Serves   bool
	Since    time.Time // since when it serves, or has not served
	Restarts int
}
