package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// readyLimit is how long a program may take to find out that the disk is full, or that it is not. It asks every five
// seconds.
const readyLimit = 30 * time.Second

// sayReady waits until every program says at /readyz what is wanted. Nobody pays meanwhile: a program that a load
// balancer has taken out must find out by itself when it is ready again.
func (s *stage) sayReady(ctx context.Context, o *outcome, what string, want int) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	began := s.crowd.recorder.Now()
	for _, p := range append(s.apis, s.reconcilers...) {
		said := ""
		err := await(ctx, func() (bool, error) {
			status, body, err := readyz(ctx, p.Operator)
			said = body
			return err == nil && status == want, nil
		})
		if err != nil {
			o.broken("%s: %s does not answer %d, but %s", what, p.Name, want, said)
			return nil
		}
	}
	o.tell(what, "%d, after %s", want, rounded(s.crowd.recorder.Now()-began))
	return nil
}

func readyz(ctx context.Context, address string) (status int, body string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s/readyz", address), nil)
	if err != nil {
		return 0, "", err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, 4<<10))
	return res.StatusCode, string(raw), err
}
