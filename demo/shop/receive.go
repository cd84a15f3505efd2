package shop

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"net/http"

	"payonce/client"
)

// onPurpose is the answer to the first delivery of an event.
const onPurpose = "The shop has taken this event. It answers 503 on purpose, so that the event comes twice.\n"

// postEvent takes an event. Its answer is 204 when the event is stored, and not before.
func (s *Shop) postEvent(w http.ResponseWriter, r *http.Request) {
	secret := s.secret.Load()
	if secret == nil {
		http.Error(w, "The shop has no secret yet. Send the event again.", http.StatusServiceUnavailable)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, "the body cannot be read", http.StatusBadRequest)
		return
	}
	event, err := client.VerifyEvent(body, r.Header, s.config.Now(), *secret)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	times, err := s.count(r.Context(), event)
	if err == nil {
		err = client.Consume(r.Context(), s.config.DB, event, func(tx *sql.Tx, _ client.News) error {
			_, err := tx.ExecContext(r.Context(), "UPDATE order_events SET taken = taken + 1 WHERE event_id = $1",
				event.ID)
			return err
		})
	}
	switch {
	case err != nil:
		s.broken(w, r, err)
	case times == 1:
		http.Error(w, onPurpose, http.StatusServiceUnavailable)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

// count counts the deliveries of an event, in a transaction of its own: also one that is not taken has come. It is 0
// for an event of a payment that is no order's.
func (s *Shop) count(ctx context.Context, e client.Event) (times int, err error) {
	err = s.config.DB.QueryRowContext(ctx, `INSERT INTO order_events AS e (event_id, order_id, type, version, deliveries)
		SELECT $1, o.id, $2, $3, 1 FROM orders AS o WHERE o.id = $4
		ON CONFLICT (event_id) DO UPDATE SET deliveries = e.deliveries + 1 RETURNING deliveries`,
		e.ID, e.Type, e.Version, e.Reference).Scan(&times)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return times, err
}
