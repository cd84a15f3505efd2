package gateway_test

import (
	"testing"
	"time"

	"payonce/internal/gateway"
)

// A scan goes on from here. Beyond what was read, it would pass over movements; before it, it would not get on.
func TestPageReachesAsFarAsItWasRead(t *testing.T) {
	t.Parallel()
	first, last := charged(), charged(func(r *gateway.Record) { r.Created = r.Created.Add(time.Minute) })
	at := last.Created
	for name, c := range map[string]struct {
		page gateway.Page
		want time.Time
	}{
		"an empty page that does not tell":  {gateway.Page{}, time.Time{}},
		"an empty page":                     {gateway.Page{ReadTo: at}, at},
		"records of a page that says none":  {gateway.Page{Records: []gateway.Record{first, last}}, at},
		"records before the end of reading": {gateway.Page{Records: []gateway.Record{first}, ReadTo: at}, at},
		"one record after it":               {gateway.Page{Records: []gateway.Record{last}, ReadTo: first.Created}, at},
	} {
		if got := c.page.Reached(); !got.Equal(c.want) {
			t.Errorf("%s reaches %s, want %s", name, got, c.want)
		}
	}
}
