package app

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"strconv"
	"syscall"

	"payonce/internal/config"
	"payonce/internal/httpapi"
)

// Address is where to listen, and the setting that says so.
type Address struct{ Setting, Addr string }

// TakenError says that somebody else listens on an address. Its text is for the person who sets the address.
type TakenError string

func (e TakenError) Error() string { return string(e) }

// Listen opens all addresses, or none. It names the setting of each that cannot be opened, and for those that are
// taken, free ones that differ from each other.
func Listen(ctx context.Context, addresses ...Address) ([]net.Listener, error) {
	listeners := make([]net.Listener, 0, len(addresses))
	held := map[string]string{} // our own settings by their ports
	var failures []error
	var taken []Address
	for _, a := range addresses {
		l, err := open(ctx, a)
		switch {
		case errors.Is(err, syscall.EADDRINUSE):
			taken = append(taken, a)
		case err != nil:
			failures = append(failures, err)
		default:
			listeners = append(listeners, l)
			held[portOf(l.Addr().String())] = a.Setting
		}
	}
	failures = append(failures, explain(ctx, taken, held)...)
	if len(failures) == 0 {
		return listeners, nil
	}
	for _, l := range listeners {
		_ = l.Close()
	}
	return nil, errors.Join(failures...)
}

func open(ctx context.Context, a Address) (net.Listener, error) {
	if err := config.CheckAddress(a.Setting, a.Addr); err != nil {
		return nil, err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", a.Addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s=%s: %w", a.Setting, a.Addr, err)
	}
	return l, nil
}

// explain says of each address who has it, and which one is free. Those are held until the last one is found, so that
// no two are the same.
func explain(ctx context.Context, taken []Address, held map[string]string) []error {
	var all []error
	for _, a := range taken {
		by := "by another process"
		if setting := held[portOf(a.Addr)]; setting != "" {
			by = "by " + setting
		}
		text := fmt.Sprintf("%s=%s is taken %s; set %s to a free address", a.Setting, a.Addr, by, a.Setting)
		if free := freeNear(ctx, a.Addr); free != nil {
			defer free.Close()
			host, _, _ := net.SplitHostPort(a.Addr)
			text += ", such as " + net.JoinHostPort(host, portOf(free.Addr().String()))
		}
		all = append(all, TakenError(text))
	}
	return all
}

// How far from a taken port a free one is looked for. 18080 is easier to remember than what the system would choose.
const (
	portStep   = 10_000
	portTries  = 50
	highestTry = 1<<16 - 1
)

// freeNear listens on a free port of the same host, or returns nil.
func freeNear(ctx context.Context, addr string) net.Listener {
	host, port, _ := net.SplitHostPort(addr)
	number, _ := strconv.Atoi(port)
	for try := range portTries {
		candidate := number + portStep + try
		if candidate > highestTry {
			candidate -= 2 * portStep
		}
		if l, err := (&net.ListenConfig{}).Listen(ctx, "tcp",
			net.JoinHostPort(host, strconv.Itoa(candidate))); err == nil {
			return l
		}
	}
	return nil
}

func portOf(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}

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
