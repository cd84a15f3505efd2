package heldport

import (
	"errors"
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// ipLocalPortRange bounds the ports that the kernel may choose for one socket (Linux 6.3).
const ipLocalPortRange = 51

// chooses asks the kernel for any port of a range that is the held port alone.
func chooses(t *testing.T, port int) error {
	t.Helper()
	listen := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var refused error
		err := c.Control(func(socket uintptr) {
			refused = syscall.SetsockoptInt(int(socket), syscall.IPPROTO_IP, ipLocalPortRange, port<<16|port)
		})
		return errors.Join(err, refused)
	}}
	l, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err == nil {
		_ = l.Close()
	}
	return err
}

func TestHeldPortIsGivenToNobodyWhoDoesNotNameIt(t *testing.T) {
	t.Parallel()
	_, name, _ := strings.Cut(Address(t), ":")
	port, err := strconv.Atoi(name)
	if err != nil {
		t.Fatal(err)
	}
	switch err := chooses(t, port); {
	case errors.Is(err, syscall.ENOPROTOOPT):
		t.Skip("this kernel cannot be asked for one port alone")
	case !errors.Is(err, syscall.EADDRINUSE):
		t.Errorf("the kernel's choice among the held port alone: %v", err)
	}
}

// Killed and started again, a program comes back to its address.
func TestHeldPortCanBeListenedOnAgainAndAgain(t *testing.T) {
	t.Parallel()
	address := Address(t)
	for range 3 {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_, second := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
		if !errors.Is(second, syscall.EADDRINUSE) {
			t.Errorf("two listen on one port: %v", second)
		}
		if err := errors.Join(connection.Close(), l.Close()); err != nil {
			t.Fatal(err)
		}
	}
}
