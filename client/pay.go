package client

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"
)

// Pay pays for an intent, once. It returns when the intent is paid or declined, or with one of the errors of this
// package. It may be called again with the same intent at any time, also in another process after a crash: an intent
// that has ended gets its stored result, and an open one goes on with its key. Calls for one intent work one after the
// other; a call whose time is over while it waits for another one gets an [UnknownError] with no attempts.
func (c *Client) Pay(ctx context.Context, intent Intent) (Result, error) {
	none := Result{Intent: intent.ID}
	body, err := intent.body()
	if err != nil {
		return none, err
	}
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	done, err := c.begin(ctx, intent.ID)
	if err != nil {
		return none, &UnknownError{intent.ID, 0, fmt.Errorf("another call works on the intent: %w", err)}
	}
	defer done()
	var random [16]byte
	if _, err := io.ReadFull(c.config.Random, random[:]); err != nil {
		return none, fmt.Errorf("make a key: %w", err)
	}
	fresh := Record{Intent: intent.ID, Key: keyOf(random), Body: body, Opened: c.config.Now().UTC(), State: Open}
	record, err := c.config.Store.Create(ctx, fresh)
	if err != nil {
		return none, fmt.Errorf("store intent %s: %w", intent.ID, err)
	}
	untouched := record.Key == fresh.Key || record.State == Unused
	if record.State == Unused {
		// From here on, the record must say that the key may have been sent.
		record.State, record.Body, record.Opened = Open, body, fresh.Opened
		record.Status, record.Answer = 0, nil
		if err := c.config.Store.Update(ctx, record); err != nil {
			return none, fmt.Errorf("store corrected intent %s: %w", intent.ID, err)
		}
	}
	if !bytes.Equal(record.Body, body) {
		return none, fmt.Errorf("intent %s: %w", intent.ID, ErrIntentChanged)
	}
	return c.finish(ctx, record, untouched)
}

// atOnce is how many intents Resume works on at a time.
const atOnce = 8

// Resume goes on with every open intent, with the same keys and the same bytes. Call it at the start of the process:
// after a crash nobody else knows of these intents. It tells the result of each, one at a time and in any order. It
// leaves out intents that a Pay of this client works on. Each intent has its own patience if ctx has no deadline. The
// error is the Store's.
func (c *Client) Resume(ctx context.Context, tell func(Result, error)) error {
	open, err := c.config.Store.Unfinished(ctx)
	if err != nil {
		return fmt.Errorf("list open intents: %w", err)
	}
	var running sync.WaitGroup
	var telling sync.Mutex
	places := make(chan struct{}, atOnce)
	for _, listed := range open {
		places <- struct{}{}
		done, other := c.tryBegin(listed.Intent)
		if other != nil {
			<-places
			continue
		}
		running.Go(func() {
			result, found, err := c.resume(ctx, listed)
			done()
			<-places
			if !found {
				return
			}
			telling.Lock()
			defer telling.Unlock()
			tell(result, err)
		})
	}
	running.Wait()
	return nil
}

// resume goes on with a listed intent, if it is still open. A Pay may have changed the record since it was listed: its
// end, or a corrected body.
func (c *Client) resume(ctx context.Context, listed Record) (result Result, found bool, err error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	record, err := c.config.Store.Create(ctx, listed) // creates nothing: the intent has a record
	if err != nil {
		return Result{Intent: listed.Intent}, true, fmt.Errorf("read intent %s: %w", listed.Intent, err)
	}
	if record.State != Open {
		return Result{}, false, nil
	}
	result, err = c.finish(ctx, record, false)
	return result, true, err
}

// finish sends the record's key until its intent has an end, or time is over. untouched says that the key was never
// sent to where it could have been executed. The caller has begun on the intent, so nobody else sends the key.
func (c *Client) finish(ctx context.Context, record Record, untouched bool) (Result, error) {
	none := Result{Intent: record.Intent}
	switch record.State {
	case Ended:
		return resultOf(record)
	case Blocked:
		return none, stuck(record)
	case Open, Unused:
	}
	for attempt := 1; ; attempt++ {
		// A record from the future says nothing about the key's age.
		if age := c.config.Now().Sub(record.Opened); age >= c.config.KeyLife || age < -maxClockError {
			return none, fmt.Errorf("intent %s: %w", record.Intent, ErrKeyTooOld)
		}
		heard := c.send(ctx, record)
		untouched = untouched && heard.row.Untouched
		switch heard.row.Meaning {
		case Paid, Declined:
			return c.end(ctx, record, heard)
		case Refused:
			return none, c.refuse(ctx, record, heard, untouched)
		case Stuck:
			return none, c.block(ctx, record, heard)
		case Again, Ask, Foreign:
		}
		if err := c.wait(ctx, pause(attempt, heard.retryAfter, c.config.Jitter)); err != nil {
			return none, &UnknownError{record.Intent, attempt, fmt.Errorf("%w; %w", heard.why(), err)}
		}
	}
}

// end stores the end of an intent, and then tells it. The end is stored also when time is over by now.
func (c *Client) end(ctx context.Context, record Record, heard answer) (Result, error) {
	record.State, record.Status, record.Answer = Ended, heard.row.Status, heard.body
	if err := c.config.Store.Update(context.WithoutCancel(ctx), record); err != nil {
		// Pay gets the same answer from the server again.
		return Result{Intent: record.Intent}, fmt.Errorf("store the end of intent %s: %w", record.Intent, err)
	}
	return resultOf(record)
}

func (c *Client) refuse(ctx context.Context, record Record, heard answer, untouched bool) error {
	if untouched {
		record.State, record.Status, record.Answer = Unused, heard.row.Status, heard.body
		if err := c.config.Store.Update(context.WithoutCancel(ctx), record); err != nil {
			return fmt.Errorf("store the refusal of intent %s: %w", record.Intent, err)
		}
	}
	return &RefusedError{record.Intent, heard.row.Status, heard.row.Code, heard.body, untouched}
}

func (c *Client) block(ctx context.Context, record Record, heard answer) error {
	record.State, record.Status, record.Answer = Blocked, heard.row.Status, heard.body
	if err := c.config.Store.Update(context.WithoutCancel(ctx), record); err != nil {
		return fmt.Errorf("store the state of intent %s: %w", record.Intent, err)
	}
	return stuck(record)
}

func stuck(record Record) error {
	return &StuckError{record.Intent, record.Status, codeIn(record.Answer), record.Answer}
}
