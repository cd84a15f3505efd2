// Package deadletters owns the cases that only an operator can close. A letter holds the evidence and stays open until
// somebody resolves it. Whoever finds such a case queues the letter on the transaction that records the finding, so
// that neither can exist without the other.
//
// It knows keys and subjects by their names and nothing of what they stand for.
package deadletters

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"payonce/internal/deadletters/internal/dbsqlc"
	"payonce/internal/postgres"
)

// Kind says what was found.
type Kind string

// PSPContradicts: the PSP answered a request with something that was not asked for.
const PSPContradicts Kind = "psp_contradicts_request"

// Letter is one case.
type Letter struct {
	ID         uuid.UUID
	Kind       Kind
	Tenant     string
	Scope      string
	Key        string
	Generation int32
	Subject    uuid.UUID
	Reason     string
	Evidence   []byte // JSON
	Opened     time.Time
	Version    int32
}

// QueueOpen queues the letter on b. The same finding about the same key, while one is open, adds nothing.
func QueueOpen(b *pgx.Batch, l Letter) {
	_ = dbsqlc.New(postgres.On(b)).OpenDeadLetter(context.Background(), dbsqlc.OpenDeadLetterParams{
		ID: l.ID, Kind: string(l.Kind), TenantID: l.Tenant, Scope: l.Scope, Key: l.Key,
		Generation: l.Generation, Subject: l.Subject, Reason: l.Reason, Evidence: l.Evidence,
	})
}

// Open lists the oldest open letters, at most limit.
func Open(ctx context.Context, db *postgres.DB, limit int32) ([]Letter, error) {
	var letters []Letter
	err := db.Read(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		rows, err := dbsqlc.New(c).ListOpen(ctx, limit)
		for _, r := range rows {
			letters = append(letters, Letter{
				ID: r.ID, Kind: Kind(r.Kind), Tenant: r.TenantID, Scope: r.Scope, Key: r.Key, Generation: r.Generation,
				Subject: r.Subject, Reason: r.Reason, Evidence: r.Evidence, Opened: r.OpenedAt, Version: r.Version,
			})
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list open dead letters: %w", err)
	}
	return letters, nil
}
