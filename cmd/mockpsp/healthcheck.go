package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"
)

// healthcheck asks the server on addr whether it answers, for containers whose image holds no shell and no curl.
func healthcheck(ctx context.Context, addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("parse MOCKPSP_ADDR: %w", err)
	}
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		host = "localhost" // one listens on all interfaces but cannot call them all
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+"/_faults", nil)
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	request.Close = true
	response, err := new(http.Client).Do(request)
	if err != nil {
		return fmt.Errorf("call the mock PSP: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the mock PSP answers %s", response.Status)
	}
	return nil
}
