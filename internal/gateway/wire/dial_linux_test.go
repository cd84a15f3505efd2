package wire_test

import (
	"fmt"
	"net"
	"syscall"
	"testing"
	"time"

	"payonce/internal/gateway"
)

// A listener whose backlog is full answers no SYN: the dial runs into its own limit, without a connection.
func TestDialThatTimesOutProvesThatNothingWasSent(t *testing.T) {
	t.Parallel()
	url := fullBacklog(t)
	began := time.Now()
	c := newClient(t, url, func(l *gateway.Limits) { l.Dial, l.Total = soon, patience })
	notSent(t, c.post(), "no connection to the PSP")
	if took := time.Since(began); took < soon || took > patience/2 {
		t.Fatalf("the dial took %s, its limit is %s", took, soon)
	}
	// The same where the request's own limit ends the dial.
	c = newClient(t, url, func(l *gateway.Limits) { l.Dial, l.Total = patience, soon })
	notSent(t, c.post(), "no connection to the PSP")
}

// fullBacklog is the URL of a listener that takes no more connections and accepts none.
func fullBacklog(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
	for range 16 {
		c, err := net.DialTimeout("tcp", addr, 100*time.Millisecond)
		if err != nil {
			return "http://" + addr
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	t.Skip("this kernel takes connections beyond the backlog: a dial cannot be made to time out on loopback")
	return ""
}
