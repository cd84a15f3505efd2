package native

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"payonce/internal/gateway"
	"payonce/internal/gateway/wire"
)

// Statement calls each with every record of the PSP's settlement CSV of one day (UTC), oldest first. It keeps one line
// in memory, and may take as long as ctx allows while bytes arrive. If the file is damaged, of another day, or
// incomplete, Statement returns an error, but each has got the lines before that. So the caller must not conclude that
// a record is missing before Statement has returned nil. An error of each ends the reading, and is part of the error
// that is returned.
func (c *Client) Statement(
	ctx context.Context, account string, day time.Time, each func(gateway.Record) error,
) error {
	began := c.now()
	err := c.readStatement(ctx, account, day.UTC().Format(time.DateOnly), each)
	label := "statement_ok"
	if err != nil {
		label, err = "statement_failed", fmt.Errorf("read statement: %w", err)
	}
	if errors.Is(err, gateway.ErrNoStatement) {
		label = "statement_none"
	}
	c.observe(label, c.now().Sub(began))
	return err
}

func (c *Client) readStatement(
	ctx context.Context, account, day string, each func(gateway.Record) error,
) error {
	build := c.get(account, "/v1/settlements/"+day+".csv", "text/csv")
	err := c.Stream(ctx, account, build, func(body io.Reader) error {
		return newSettlement(body, account, day).read(each)
	})
	if status, _ := errors.AsType[wire.StatusError](err); int(status) == http.StatusNotFound {
		return gateway.ErrNoStatement
	}
	return err
}
