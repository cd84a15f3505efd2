package windows

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"payonce/test/httpproxy"
	"payonce/test/pgproxy"
)

// proxies stand around one process: one before the database, and one before the PSP.
type proxies struct {
	rows  *pgproxy.Proxy
	calls *httpproxy.Proxy
}

func openProxies(parent, databaseURL, pspAddress string, d Dialect) (p proxies, err error) {
	if p.rows, err = pgproxy.OpenIn(parent, databaseURL); err != nil {
		return p, fmt.Errorf("stand before the database: %w", err)
	}
	// With a choice, the proxy does not remember each round: the demo may run for days.
	p.rows.Choose(func([]string) pgproxy.Action { return pgproxy.Pass })
	p.calls, err = httpproxy.Open(httpproxy.Options{Upstream: func() string { return pspAddress }, Name: d.name})
	if err != nil {
		return p, errors.Join(fmt.Errorf("stand before the PSP: %w", err), p.rows.Close())
	}
	return p, nil
}

func (p proxies) close() error {
	p.calls.Close()
	return p.rows.Close()
}

// maxSocketPath is what every system accepts as the path of a socket.
const maxSocketPath = 103

// socketParent is dir, without what a killed demo has left there; or the system's folder for temporary files, if a
// socket's path in dir would be too long.
func socketParent(dir string) (string, error) {
	left, err := filepath.Glob(filepath.Join(dir, "pgproxy-*"))
	for _, path := range left {
		err = errors.Join(err, os.RemoveAll(path))
	}
	if len(filepath.Join(dir, "pgproxy-0123456789", ".s.PGSQL.5432")) > maxSocketPath {
		dir = ""
	}
	return dir, err
}
