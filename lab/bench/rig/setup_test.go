package rig

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"payonce/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// connect opens a session that ends with the test.
func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}
