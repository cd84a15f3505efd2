package heldport

import (
	"fmt"
	"net"
	"strconv"
	"syscall"
)

// Port is one that the kernel gives to nobody else, until it is closed. Those who name it can listen on it meanwhile,
// one after another.
type Port struct {
	Address string // 127.0.0.1:port
	socket  int
}

// Hold binds a port and does not listen on it. SO_REUSEADDR, which net.Listen also sets, lets a program listen there
// that names the port. A program that asks for any port, to listen or to connect from, is never given a bound one.
func Hold() (*Port, error) {
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("hold a port: %w", err)
	}
	address, err := bind(socket)
	if err != nil {
		_ = syscall.Close(socket)
		return nil, fmt.Errorf("hold a port: %w", err)
	}
	return &Port{address, socket}, nil
}

func bind(socket int) (string, error) {
	if err := syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return "", err
	}
	// On all addresses: a program may listen on more than loopback.
	if err := syscall.Bind(socket, &syscall.SockaddrInet4{}); err != nil {
		return "", err
	}
	bound, err := syscall.Getsockname(socket)
	if err != nil {
		return "", err
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(bound.(*syscall.SockaddrInet4).Port)), nil
}

// Close gives the port back. A program that listens on it keeps it.
func (p *Port) Close() { _ = syscall.Close(p.socket) }
