package app

import (
	"math"
	"syscall"

	"payonce/internal/config"
	"payonce/internal/httpapi"
)

// spareFiles are for what is open besides connections, with room for more.
const spareFiles = 64

// maxConnections is how many clients may be connected: 12 000, or what the system's limit of open
// files leaves when the database, the PSP and the operator have what they may need.
func maxConnections(c config.Shared) int {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return httpapi.MaxConnections
	}
	// To the PSP, as many again may be idle.
	ours := int(c.DBMaxConns) + 2*c.PSPInFlight + httpapi.MaxOperatorConnections + spareFiles
	return max(1, min(httpapi.MaxConnections, int(min(files.Cur, math.MaxInt32))-ours))
}
