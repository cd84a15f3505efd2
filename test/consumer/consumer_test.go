// Package consumer tests the consumer of events (client/consume.go) with a database. It is apart from package client,
// whose tests hold locks of files: a process that starts PostgreSQL meanwhile would hold them for a moment, too.
package consumer

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"

	"payonce/client"
	"payonce/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// consumer is a merchant's system with its own database.
func consumer(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", pgtest.NewURL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.ExecContext(t.Context(), client.ConsumerTables+"CREATE TABLE shipped (n int)"); err != nil {
		t.Fatal(err)
	}
	return db
}

func eventOf(version int64) client.Event {
	return client.Event{ID: fmt.Sprintf("evt_%d", version), Type: "payment.succeeded", Version: version,
		PaymentID: "pay_1", Status: fmt.Sprintf("status %d", version), Payment: json.RawMessage(`{}`)}
}

// ship is what an event causes.
func ship(n int64) func(*sql.Tx, client.News) error {
	return func(tx *sql.Tx, _ client.News) error {
		_, err := tx.Exec("INSERT INTO shipped VALUES ($1)", n)
		return err
	}
}

func wantShipped(t *testing.T, db *sql.DB, want ...int) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT n FROM shipped ORDER BY n")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var got []int
	for rows.Next() {
		var n int
		if err := rows.Scan(&n); err != nil {
			t.Fatal(err)
		}
		got = append(got, n)
	}
	if rows.Err() != nil || !slices.Equal(got, want) {
		t.Errorf("shipped %v, want %v: %v", got, want, rows.Err())
	}
}

// Each event comes twice, and the older one comes last.
func TestEventIsTakenOnceAndTheNewestCounts(t *testing.T) {
	t.Parallel()
	db := consumer(t)
	for _, version := range []int64{2, 2, 5, 3, 5, 3} {
		if err := client.Consume(t.Context(), db, eventOf(version), ship(version)); err != nil {
			t.Fatal(err)
		}
	}
	wantShipped(t, db, 2, 5)
	var status string
	if err := db.QueryRowContext(t.Context(), "SELECT status FROM told_payments").Scan(&status); err != nil ||
		status != "status 5" {
		t.Errorf("the payment is told as %q: %v", status, err)
	}
}

func TestEventWhoseWorkFailsIsTakenByTheNextDelivery(t *testing.T) {
	t.Parallel()
	db := consumer(t)
	full := errors.New("disk full")
	fails := func(*sql.Tx, client.News) error { return full }
	if err := client.Consume(t.Context(), db, eventOf(1), fails); !errors.Is(err, full) {
		t.Fatal(err)
	}
	if err := client.Consume(t.Context(), db, eventOf(1), ship(1)); err != nil {
		t.Fatal(err)
	}
	wantShipped(t, db, 1)
}

func TestDeliveriesAtTheSameTimeAreTakenOnce(t *testing.T) {
	t.Parallel()
	db := consumer(t)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if err := client.Consume(t.Context(), db, eventOf(1), ship(1)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	wantShipped(t, db, 1)
}

// Of two refunds or disputes of one payment, the older event comes last. The payment in it is old, and the refund or
// the dispute is news.
func TestObjectOfAnOlderEventIsStillNews(t *testing.T) {
	t.Parallel()
	for object, about := range map[string]func(e *client.Event, id string){
		"refund":  func(e *client.Event, id string) { e.RefundID = id },
		"dispute": func(e *client.Event, id string) { e.DisputeID = id },
	} {
		t.Run(object, func(t *testing.T) {
			t.Parallel()
			db := consumer(t)
			news := map[string]client.News{}
			for _, come := range []struct {
				id      string
				version int64
			}{{"second", 11}, {"first", 10}, {"first", 9}, {"first", 12}} {
				e := eventOf(come.version)
				about(&e, come.id)
				if err := client.Consume(t.Context(), db, e, func(_ *sql.Tx, n client.News) error {
					news[e.ID] = n
					return nil
				}); err != nil {
					t.Fatal(err)
				}
			}
			// A PSP may count its disputes by payment.
			other := eventOf(8)
			other.PaymentID = "pay_2"
			about(&other, "first")
			if err := client.Consume(t.Context(), db, other, func(_ *sql.Tx, n client.News) error {
				news[other.ID] = n
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			want := map[string]client.News{"evt_11": {Payment: true, Object: true}, "evt_10": {Object: true},
				"evt_12": {Payment: true, Object: true}, "evt_8": {Payment: true, Object: true}}
			if !maps.Equal(news, want) {
				t.Errorf("news %+v, want %+v", news, want)
			}
		})
	}
}
