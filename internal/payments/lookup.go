package payments

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"payonce/internal/gateway"
	"payonce/internal/payment"
	"payonce/internal/payments/internal/dbsqlc"
)

// Ask looks the key up at the PSP, under the tenant's own account. A record may refer to an earlier payment that had
// the same key. Such a record says nothing about this movement: it is returned in others, and is not in the answer.
// Every other record is in the answer, even if its reference is empty or unknown, because money may have moved.
// unbooked are those of the others by which money has moved, and our books do not say so. end says what the PSP may end
// for that, if it can.
func (b *Books) Ask(
	ctx context.Context, g Gathered, end gateway.End,
) (answer gateway.Lookup, others, unbooked []gateway.Record, err error) {
	answer = b.psps.Of(g.Seen.PSP).Lookup(ctx, g.Seen.Request, end)
	found, ok := answer.(gateway.Found)
	if !ok {
		return answer, nil, nil, nil
	}
	var ids []uuid.UUID // Our ids in the records' references, without the movement that the key stands for.
	for _, r := range found.Records {
		if id, ours := payment.SubjectOf(r.Object, r.Reference); ours && id != g.Seen.Own.Subject {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return answer, nil, nil, nil
	}
	booked, err := b.otherSubjects(ctx, g, ids)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("read earlier payments of key: %w", err)
	}
	var about []gateway.Record
	for _, r := range found.Records {
		id, _ := payment.SubjectOf(r.Object, r.Reference)
		known, other := booked[id]
		switch {
		case !other:
			about = append(about, r)
			continue
		case r.Executed() && !known:
			unbooked = append(unbooked, r)
		}
		others = append(others, r)
	}
	if len(about) == 0 {
		return gateway.NotFound{}, others, unbooked, nil
	}
	return gateway.Found{Records: about}, others, unbooked, nil
}

// otherSubjects returns those of the ids that had the key in the same generation and are not the movement of the key
// now, and for each whether our books say that it was executed.
func (b *Books) otherSubjects(ctx context.Context, g Gathered, ids []uuid.UUID) (map[uuid.UUID]bool, error) {
	rows, err := dbsqlc.New(b.db.Reader()).OtherMovementsOfKey(ctx, dbsqlc.OtherMovementsOfKeyParams{
		Ids: ids, Subject: g.Seen.Own.Subject, TenantID: g.Seen.Tenant, Key: g.Seen.Own.Ref.Key.String(),
		Generation: g.Seen.Own.Generation,
		Object:     string(g.movement.object),
	})
	booked := make(map[uuid.UUID]bool, len(rows))
	for _, row := range rows {
		booked[row.ID] = row.Booked
	}
	return booked, err
}
