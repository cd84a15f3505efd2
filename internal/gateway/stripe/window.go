package stripe

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"payonce/internal/gateway"
)

// Stripe's lists are newest first, and ours are oldest first. So a page of ours is a window of time. All pages of
// Stripe with objects created in the window are read, and then reversed.

const (
	// firstWidth is the width of the first window, in seconds.
	firstWidth = 24 * 60 * 60
	// widest bounds the width of a window: a hundred years, in seconds.
	widest = 100 * 365 * 24 * 60 * 60
	// windowPages is how many pages a window may have. A window with more pages is halved.
	windowPages = 10
	// secondPages is how many pages a window of one second may have, because it cannot be halved.
	secondPages = 100
	// sparse is how many objects a window has at most, if the next one is twice as wide.
	sparse = 300
	// emptyWindows bounds how many empty windows one call passes over.
	emptyWindows = 256
	// stripeBegan is earlier than every object of Stripe, which was first used in 2010.
	stripeBegan = 1_262_304_000
)

// window is the time from from up to, and not including, from+width, in seconds since 1970.
type window struct{ from, width int64 }

func (w window) end() int64 { return w.from + w.width }

// unbounded is the window without an upper bound. It has no width.
func (w window) unbounded() window { return window{from: w.from} }

func (w window) has(created int64) bool {
	return created >= w.from && (w.width == 0 || created < w.end())
}

// pages is how many pages of Stripe the window may have.
func (w window) pages() int {
	if w.width == 1 {
		return secondPages
	}
	return windowPages
}

// cursorForm is a window as a cursor: its beginning and its width.
var cursorForm = regexp.MustCompile(`^([1-9][0-9]{0,10}):([1-9][0-9]{0,9})$`)

func (w window) cursor() string { return fmt.Sprintf("%d:%d", w.from, w.width) }

// parseCursor reads a cursor that we have returned.
func parseCursor(cursor string) (window, error) {
	parts := cursorForm.FindStringSubmatch(cursor)
	if parts == nil {
		return window{}, errors.New("cursor malformed")
	}
	from, _ := strconv.ParseInt(parts[1], 10, 64) // At most 11 digits fit.
	width, _ := strconv.ParseInt(parts[2], 10, 64)
	if width > widest {
		return window{}, errors.New("cursor malformed")
	}
	return window{from, width}, nil
}

// firstWindow begins at after, or at the beginning of Stripe. Stripe counts whole seconds.
func firstWindow(after time.Time) window {
	return window{max(after.Unix(), stripeBegan), firstWidth}
}

// until is the part of the window before another one.
func (w window) until(next window) window { return window{w.from, next.from - w.from} }

// halved is the window to read if this one has too many pages. The second half comes later.
func (w window) halved() window { return window{w.from, max(1, w.width/2)} }

// following is the window after this one, which had so many objects.
func (w window) following(objects int) window {
	width := w.width
	if objects <= sparse {
		width = min(2*width, widest)
	}
	return window{w.end(), width}
}

// source is a list of Stripe.
type source struct {
	object  gateway.Object
	account string
	path    string
	expand  string
	reader  func(raw []byte) (gateway.Record, error)
}

// query are the parameters for the objects of a window. A window without an upper bound has no width.
func (s source) query(w window) url.Values {
	query := url.Values{"created[gte]": {strconv.FormatInt(w.from, 10)}}
	if w.width > 0 {
		query.Set("created[lt]", strconv.FormatInt(w.end(), 10))
	}
	if s.expand != "" {
		query.Set("expand[]", s.expand)
	}
	return query
}

// readWindow reads all objects of a window, oldest first. It also returns the next window.
//
// If there are too many objects, it halves the window until they fit on one page of Stripe. So each further try costs
// one request. The next window is no wider then, because the many objects are close.
func (c *Client) readWindow(ctx context.Context, s source, w window) (objects []jsontext.Value, next window,
	err error) {
	objects, fits, err := c.readPages(ctx, s, w, w.pages())
	if err != nil || fits {
		return objects, w.following(len(objects)), err
	}
	for w.width > 1 {
		w = w.halved()
		if objects, fits, err = c.readPages(ctx, s, w, 1); err != nil || fits {
			return objects, window{w.end(), w.width}, err
		}
	}
	if objects, fits, err = c.readPages(ctx, s, w, w.pages()); err == nil && !fits {
		err = fmt.Errorf("more than %d pages in one second", secondPages)
	}
	return objects, window{w.end(), w.width}, err
}

// readPages reads at most most pages. fits is false if there are more.
func (c *Client) readPages(
	ctx context.Context, s source, w window, most int,
) (objects []jsontext.Value, fits bool, err error) {
	p := c.pages(s.account, s.path, s.query(w))
	for range most {
		items, err := p.next(ctx)
		if err != nil {
			return nil, false, err
		}
		objects = append(objects, items...)
		if p.done {
			slices.Reverse(objects)
			return objects, true, nil
		}
	}
	return nil, false, nil
}
