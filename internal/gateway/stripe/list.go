package stripe

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"payonce/internal/gateway"
)

// List reads one page of the account's charges, refunds or disputes, oldest first. The page is a window of time, and
// may have more than [gateway.MaxPage] records, because a window of one second cannot be cut.
func (c *Client) List(
	ctx context.Context, o gateway.Object, account string, after time.Time, cursor string,
) (gateway.Page, error) {
	s, err := c.sourceOf(o, account)
	if err != nil {
		return gateway.Page{}, err
	}
	if cursor != "" {
		w, err := parseCursor(cursor)
		if err != nil {
			return gateway.Page{}, err
		}
		return c.listFrom(ctx, s, w)
	}
	// Often all objects fit on one page of Stripe. Then there is one request, even over years.
	w := firstWindow(after)
	objects, all, err := c.readPages(ctx, s, w.unbounded(), 1)
	switch {
	case err != nil:
		return gateway.Page{}, err
	case all:
		return pageOf(s, objects, w.unbounded())
	}
	return c.listFrom(ctx, s, w)
}

// listFrom reads the first window that has objects, beginning with w.
func (c *Client) listFrom(ctx context.Context, s source, w window) (gateway.Page, error) {
	for range emptyWindows {
		if w.end() > c.now().Unix()+1 {
			return c.listLast(ctx, s, w)
		}
		objects, next, err := c.readWindow(ctx, s, w)
		if err != nil {
			return gateway.Page{}, err
		}
		if len(objects) > 0 {
			page, err := pageOf(s, objects, w.until(next))
			page.Next = next.cursor()
			return page, err
		}
		w = next
	}
	return gateway.Page{}, errNoEnd
}

// listLast reads the newest window. It has no upper bound, so no object is left out because two clocks differ. If it
// has too many objects, an older part is read with a bound.
func (c *Client) listLast(ctx context.Context, s source, w window) (gateway.Page, error) {
	objects, all, err := c.readPages(ctx, s, w.unbounded(), w.pages())
	switch {
	case err != nil:
		return gateway.Page{}, err
	case all:
		return pageOf(s, objects, w.unbounded())
	case w.width == 1:
		return gateway.Page{}, errNoEnd
	}
	for w.width > 1 && w.end() > c.now().Unix()+1 {
		w = w.halved()
	}
	return c.listFrom(ctx, s, w)
}

// sourceOf is Stripe's list of these objects.
func (c *Client) sourceOf(o gateway.Object, account string) (source, error) {
	in, err := c.reader(account)
	switch o {
	case gateway.ChargeObject:
		return source{object: o, account: account, path: chargesPath, reader: in.readCharge}, err
	case gateway.RefundObject:
		return source{object: o, account: account, path: refundsPath, reader: in.readRefund}, err
	case gateway.DisputeObject:
		return source{object: o, account: account, path: disputesPath, reader: in.readDispute}, err
	}
	return source{}, errors.New("no such object")
}

// pageOf reads the objects of a window, oldest first. A record outside of the window is an error: then Stripe has not
// answered our question. An object that has not moved money yet is left out. Its event tells the outcome later.
func pageOf(s source, objects []jsontext.Value, w window) (gateway.Page, error) {
	page := gateway.Page{Records: []gateway.Record{}}
	for _, raw := range objects {
		switch r, err := s.reader(raw); {
		case errors.Is(err, foreign):
			page.Foreign++
		case errors.Is(err, unfinished):
		case err != nil:
			page.Unreadable = append(page.Unreadable, putAside(s.object, raw, err))
		case !w.has(r.Created.Unix()):
			return gateway.Page{}, errors.New("record of another time")
		default:
			page.Records = append(page.Records, r)
		}
	}
	if w.width > 0 { // The newest window has no end.
		page.ReadTo = time.Unix(w.end(), 0).UTC()
	}
	slices.SortStableFunc(page.Records, func(a, b gateway.Record) int { return a.Created.Compare(b.Created) })
	return page, nil
}
