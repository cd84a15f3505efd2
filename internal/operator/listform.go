package operator

import (
	"time"

	"payonce/internal/query"

	"github.com/go-json-experiment/json"
)

// at is a time in the form of the operator's API.
type at struct{ time.Time }

// MarshalJSON writes the time as the bodies of payments do.
func (t at) MarshalJSON() ([]byte, error) { return json.Marshal(stamp(t.Time)) }

func atOrNil(t *time.Time) *at {
	if t == nil {
		return nil
	}
	return &at{*t}
}

// date is a day in the form of the operator's API.
type date struct{ time.Time }

// MarshalJSON writes the day as YYYY-MM-DD.
func (d date) MarshalJSON() ([]byte, error) { return json.Marshal(d.Format(time.DateOnly)) }

// rowsFor is one row more than the page shows: it says whether there is another page.
func rowsFor(limit int) int32 { return int32(min(limit, query.MaxPage) + 1) } //nolint:gosec // bounded by MaxPage
