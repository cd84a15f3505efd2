package wire_test

import (
	"testing"

	"payonce/internal/gateway"
)

// An operator who reads why a lookup failed is not led to a slow PSP where there is none.
func TestReadWhoseDialTimesOutHasNoConnection(t *testing.T) {
	t.Parallel()
	c := newClient(t, fullBacklog(t), func(l *gateway.Limits) { l.Dial, l.Total = soon, patience })
	_, err := c.read(most)
	failed(t, err, "no connection to the PSP")
	failed(t, c.stream(func(string) {}), "no connection to the PSP")
}
