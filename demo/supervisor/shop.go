package supervisor

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"payonce/client"
	"payonce/demo/shop"
	"payonce/internal/config"
)

// ofShop ends the name of the shop's database, which begins with the name of ours. A restore of ours does not take the
// shop's orders back, as with a merchant.
const ofShop = "_shop"

// maxShopConns bounds the shop's connections.
const maxShopConns = 4

// openShop makes the merchant's shop at /shop. It is nil where the page with the buttons is absent: everybody who
// reaches it may buy.
func openShop(
	ctx context.Context, set settings, at *listeners, d *database, log *slog.Logger,
) (s *shop.Shop, closed func(), err error) {
	if demoPage(at) == "" {
		return nil, func() {}, nil
	}
	c, err := pgx.ParseConfig(d.url)
	if err != nil {
		return nil, nil, err
	}
	c.Database += ofShop
	if err := createDatabase(ctx, d.url, c.Database); err != nil {
		return nil, nil, err
	}
	journal, err := client.OpenJournal(filepath.Join(d.dir, "shop-payments.jsonl"))
	if err != nil {
		return nil, nil, err
	}
	db := stdlib.OpenDB(*c)
	db.SetMaxOpenConns(maxShopConns)
	s, err = shop.New(ctx, shop.Config{API: set.api.LocalURL(), APIKey: apiKey,
		Own: config.LocalURL(at.operator.Addr().String()), DB: db, Store: journal, Lost: "pm_timeout_charged",
		Log: log, Now: time.Now})
	if err != nil {
		return nil, nil, errors.Join(err, db.Close(), journal.Close())
	}
	return s, func() { s.Close(); _, _ = db.Close(), journal.Close() }, nil
}
