package events

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/events/internal/dbsqlc"
)

// What operators do to endpoints is in the audit trail, in the transaction that does it.

// Action is what an operator has done to an endpoint.
type Action struct {
	At    time.Time
	Actor string
	Did   string // enable, or resend
	What  string // was sent again
}

// auditTx writes an operator's action. Without an actor, it is the merchant's own, which is in the log only.
func auditTx(ctx context.Context, tx pgx.Tx, tenant string, id EndpointID, a Action) error {
	if a.Actor == "" {
		return nil
	}
	return dbsqlc.New(tx).AuditEndpoint(ctx, dbsqlc.AuditEndpointParams{EndpointID: uuid.UUID(id), TenantID: tenant,
		Actor: a.Actor, Action: a.Did, Detail: a.What})
}

// maxActions bounds what Actions returns.
const maxActions = 50

// Actions lists what operators have done to an endpoint, the newest first.
func (r *Registry) Actions(ctx context.Context, tenant string, id EndpointID) (all []Action, err error) {
	rows, err := dbsqlc.New(r.DB.Reader()).ListEndpointActions(ctx, dbsqlc.ListEndpointActionsParams{TenantID: tenant,
		EndpointID: uuid.UUID(id), MaxRows: maxActions})
	if err != nil {
		return nil, fmt.Errorf("list operators' actions: %w", err)
	}
	for _, row := range rows {
		all = append(all, Action{At: row.At, Actor: row.Actor, Did: row.Action, What: row.Detail})
	}
	return all, nil
}
