package native

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"payonce/internal/gateway"
	"payonce/internal/gateway/wire"
)

// Statement reads the PSP's settlement CSV of one day (UTC), oldest first. It keeps one line in memory, and may take as
// long as ctx allows while bytes arrive. If the file is damaged, of another day, or incomplete, Statement returns an
// error, but each has got the lines before that. An error of each ends the reading.
func (c *Client) Statement(
	ctx context.Context, account string, day time.Time, each func(gateway.Record) error,
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
