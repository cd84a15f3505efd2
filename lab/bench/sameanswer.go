package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"payonce/lab/bench/rig"
)

// sameAnswers sees that all ways answer a replay alike, to the byte, and refuse a misuse of its key: speed by another
// answer is none.
func (b *bench) sameAnswers(ctx context.Context, c cached) error {
	key := c.keys[0]
	for amount, want := range map[string]int{"12000": http.StatusCreated, "12001": http.StatusUnprocessableEntity} {
		var first string
		for _, w := range c.ways {
			status, answer, err := b.ask(ctx, w.api, key, `{"customerId":"cus-1","amountCents":`+amount+
				`,"currency":"KRW"}`)
			switch {
			case err != nil:
				return err
			case status != want:
				return fmt.Errorf("asked for %s, %s: %d, must be %d: %s", amount, w.name, status, want, answer)
			case status != http.StatusCreated:
				// A problem document tells its own request apart.
			case first == "":
				first = answer
			case answer != first:
				return fmt.Errorf("the same replay is answered in two ways:\n%s\n%s", first, answer)
			}
		}
	}
	return nil
}

// ask returns what a client sees of an answer that must not change, as one text.
func (b *bench) ask(ctx context.Context, p *rig.Process, key, body string) (status int, answer string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+p.Address+"/payments", strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Authorization", "Bearer "+b.db.APIKey)
	r.Header.Set("Idempotency-Key", key)
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	for _, name := range []string{"Content-Type", "Location", "Idempotency-Key", "Idempotency-Key-Expires",
		"Idempotent-Replayed"} {
		answer += name + ": " + res.Header.Get(name) + "\n"
	}
	return res.StatusCode, answer + string(raw), err
}
