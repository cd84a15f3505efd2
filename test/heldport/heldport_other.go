//go:build !linux

package heldport

import (
	"fmt"
	"net"
)

// Port is one that was free when it was asked for. Only Linux lets a program listen on a port that another one holds.
type Port struct{ Address string }

// Hold finds a port.
func Hold() (*Port, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it waits for nothing
	if err != nil {
		return nil, fmt.Errorf("hold a port: %w", err)
	}
	return &Port{l.Addr().String()}, l.Close()
}

// Close has nothing to give back.
func (p *Port) Close() {}
