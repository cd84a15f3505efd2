package native

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"payonce/internal/gateway"
	"payonce/internal/gateway/wire"
)

var _ gateway.Statements = (*Client)(nil)

// Statement reads the PSP's settlement CSV of one day (UTC), oldest first. It keeps one line in memory, and may take as
// long as ctx allows while bytes arrive. If the file is damaged, of another day, or incomplete, Statement returns an
// error, but each has got the lines before that. An error of each ends the reading.
func (c *Client) Statement(
	ctx context.Context, account string, day time.Time, each func(gateway.Line) error,
) error {
	date := day.UTC().Format(time.DateOnly)
	build := c.get(account, "/v1/settlements/"+date+".csv", "text/csv")
	err := c.Stream(ctx, account, build, func(body io.Reader) error {
		return newSettlement(body, account, date).read(each)
	})
	if errors.Is(err, wire.StatusError(http.StatusNotFound)) {
		return gateway.ErrNoStatement
	}
	return err
}

// PayoutLines reads the PSP's CSV of the lines that a payout has paid.
func (c *Client) PayoutLines(
	ctx context.Context, account, payoutID string, each func(lineID string) error,
) error {
	build := c.get(account, "/v1/payouts/"+url.PathEscape(payoutID)+".csv", "text/csv")
	err := c.Stream(ctx, account, build, func(body io.Reader) error {
		return newSettlement(body, account, "").readAll(payoutHeader, func(fields []string) error {
			id := lineID(fields[0], fields[1])
			if !gateway.IsID(id) {
				return errMalformed
			}
			return each(id)
		})
	})
	if errors.Is(err, wire.StatusError(http.StatusNotFound)) {
		return gateway.ErrNoPayoutLines
	}
	return err
}
