package main

import (
	"context"
	"errors"
	"time"

	"payonce/demo/controls"
)

// errAlreadyAsked refuses a crash while another one is waiting for its turn.
var errAlreadyAsked = errors.New("a crash is under way already")

// crash asks for the database to be killed and started again. It does not wait for that.
func (d *database) crash() error {
	select {
	case d.crashes <- struct{}{}:
		return nil
	default:
		return errAlreadyAsked
	}
}

// watch crashes the database when it is asked to, and ends the demo when the database ends by itself.
func (d *database) watch(ctx context.Context) error {
	if d.server == nil {
		return nil
	}
	for {
		select {
		case <-d.crashes:
			if err := d.restart(ctx); err != nil {
				return err
			}
		case <-d.server.Done():
			return errors.New("PostgreSQL has stopped; start the demo again, nothing is lost")
		case <-ctx.Done():
			return nil
		}
	}
}

// restart kills the server and starts it again, also when the demo is asked to stop meanwhile: payments in flight still
// need the database.
func (d *database) restart(ctx context.Context) error {
	d.set(func() { d.state.Serves, d.state.Since = false, time.Now() })
	next, err := d.server.Restart(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	d.server = next
	d.set(func() {
		d.state.Serves, d.state.Since, d.state.PID = true, time.Now(), next.PID()
		d.state.Restarts++
	})
	return nil
}

func (d *database) set(change func()) {
	d.mu.Lock()
	change()
	d.mu.Unlock()
	d.changed()
}

// State is what people are shown of the database.
func (d *database) State() controls.Process {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.state
}
