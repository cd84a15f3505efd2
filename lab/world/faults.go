package world

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/go-json-experiment/json"
)

// SetFaults tells the mock PSP at a URL how often to fail, by the names that PUT /_faults has.
func SetFaults(ctx context.Context, client *http.Client, psp string, rates any) error {
	raw, err := json.Marshal(rates)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, psp+"/_faults", bytes.NewReader(raw))
	if err != nil {
		return err
	}
	res, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("set faults: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		const sentence = 500
		said, _ := io.ReadAll(io.LimitReader(res.Body, sentence)) // as much of the reason as came
		return fmt.Errorf("set faults: %d %s", res.StatusCode, said)
	}
	return nil
}
