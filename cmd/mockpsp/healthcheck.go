package main

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// healthcheck asks the server on addr whether it answers, for containers whose image holds no shell and no curl.
// An address of all interfaces is fine: net takes it for the local machine.
func healthcheck(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/_faults", nil)
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
