package merchant

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payonce/lab/program"
)

// reader follows a feed, and never goes back.
type reader struct {
	mu    sync.Mutex
	after string
	seen  []Notice
}

func (r *reader) read() []Notice {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.seen)
}

// Follow reads the feed of each tenant, until ctx ends: what comes, when it comes.
func (m *Merchants) Follow(ctx context.Context) {
	var reading sync.WaitGroup
	for _, tenant := range m.tenants {
		reading.Go(func() {
			for ctx.Err() == nil {
				more, err := m.readOn(ctx, tenant)
				if err != nil {
					return // ReadToEnd meets it again.
				}
				if !more {
					program.Wait(ctx, readEvery)
				}
			}
		})
	}
	reading.Wait()
}

// ReadToEnd reads what the feeds still have.
func (m *Merchants) ReadToEnd(ctx context.Context) error {
	for _, tenant := range m.tenants {
		for more := true; more; {
			var err error
			if more, err = m.readOn(ctx, tenant); err != nil {
				return fmt.Errorf("read the feed of %s: %w", tenant, err)
			}
		}
	}
	return nil
}

// readOn reads one page. It returns true if there is another one already.
func (m *Merchants) readOn(ctx context.Context, tenant string) (more bool, err error) {
	r := m.followed[tenant]
	path := "/events?limit=100"
	if r.after != "" {
		path += "&after=" + r.after
	}
	answer, err := m.insist(ctx, http.MethodGet, path, tenant, "", http.StatusOK)
	if err != nil {
		return false, err
	}
	var page struct {
		Data []jsontext.Value `json:"data"`
		More bool             `json:"hasMore"`
		Next string           `json:"nextCursor"`
	}
	if err := json.Unmarshal(answer, &page); err != nil {
		return false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, raw := range page.Data {
		n, err := ReadNotice(raw)
		if err != nil {
			return false, err
		}
		r.seen = append(r.seen, n)
	}
	r.after = page.Next
	return page.More, nil
}
