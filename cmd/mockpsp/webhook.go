package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"payonce/internal/cli"
)

const webhookHelp = `Usage:
  mockpsp webhook --charge ID [--mode MODE] [--addr HOST:PORT]
      makes the running mock PSP send the webhook of a charge or refund

  --charge   the PSP's id of a charge (ch_…) or a refund (rf_…): pspChargeId in the API, or GET /_ledger
  --mode     send       send the webhook now, even if the mock PSP sends no webhook, as for pm_silent_charged (the default)
             resend     the same as send, for a webhook that was sent before: same id, same bytes
             duplicate  send the webhook twice at the same time
             forge      send the webhook with another amount, and sign it with a wrong secret
             stale      send the webhook with a signature that is ten minutes old
             print      send nothing, and print a curl command that sends the webhook; its signature is valid for five minutes
  --addr     address of the mock PSP; by default MOCKPSP_ADDR

Exit code: 0 if the receiver has answered, with any status. In all other cases, the message says why.
`

// webhookPatience is longer than the mock PSP waits for the receiver.
const webhookPatience = 15 * time.Second

// maxAnswer bounds what is read of the mock PSP's answer, in bytes.
const maxAnswer = 1 << 20

// webhookModes names the disorder that each mode asks for.
var webhookModes = map[string]string{"send": "", "resend": "", "duplicate": "duplicate", "forge": "forge",
	"stale": "stale", "print": ""}

// webhook asks the mock PSP on addr to send a webhook, or to print it.
func webhook(ctx context.Context, args []string, addr string, stdout io.Writer) error {
	if cli.AsksForHelp(args) {
		_, err := io.WriteString(stdout, webhookHelp)
		return err
	}
	flags := cli.NewFlags("mockpsp webhook")
	id := flags.String("charge", "", "")
	mode := flags.String("mode", "send", "")
	flags.StringVar(&addr, "addr", addr, "")
	if err := cli.Parse(flags, args, 0); err != nil {
		return err
	}
	disorder, known := webhookModes[*mode]
	switch {
	case *id == "":
		return cli.Usagef("--charge is required: the PSP's id of a charge or a refund; see mockpsp webhook --help")
	case !known:
		return cli.Usagef("--mode %q is none of send, resend, duplicate, forge, stale and print", *mode)
	}
	method, body := http.MethodPost, `{"disorder":"`+disorder+`"}`
	if *mode == "print" {
		method, body = http.MethodGet, ""
	}
	answer, err := askPSP(ctx, method, "http://"+addr+"/_webhooks/"+url.PathEscape(*id), body)
	if err != nil {
		return err
	}
	if *mode == "print" {
		_, err := stdout.Write(answer)
		return err
	}
	return printTries(stdout, answer)
}

// askPSP returns the body of an answer of 200, and the PSP's own message as an error otherwise.
func askPSP(ctx context.Context, method, at, body string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, webhookPatience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, at, strings.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	request.Close = true
	response, err := new(http.Client).Do(request)
	if err != nil {
		return nil, fmt.Errorf("%w; is the mock PSP running there? --addr and MOCKPSP_ADDR name another address", err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read the mock PSP's answer: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		var problem struct {
			Error struct {
				Message string `json:"message"`
			} `json:"error"`
		}
		if json.Unmarshal(answer, &problem) != nil || problem.Error.Message == "" {
			return nil, fmt.Errorf("the mock PSP answers %s", response.Status)
		}
		return nil, fmt.Errorf("the mock PSP answers %d: %s", response.StatusCode, problem.Error.Message)
	}
	return answer, nil
}

// printTries tells what was sent and what the receiver answered.
func printTries(stdout io.Writer, answer []byte) error {
	var sent struct {
		Tries []struct {
			ID       string `json:"id"`
			Type     string `json:"type"`
			Status   int    `json:"status"`
			Error    string `json:"error"`
			Disorder string `json:"disorder"`
		} `json:"tries"`
	}
	if err := json.Unmarshal(answer, &sent); err != nil || len(sent.Tries) == 0 {
		return errors.New("the mock PSP's answer is not understood: is it of this version?")
	}
	for _, try := range sent.Tries {
		if try.Status == 0 {
			return fmt.Errorf("the receiver did not answer %s: %s", try.ID, try.Error)
		}
		how := ""
		if try.Disorder != "" {
			how = " (" + try.Disorder + ")"
		}
		fmt.Fprintf(stdout, "sent %s %s%s: %d %s\n", try.ID, try.Type, how, try.Status, http.StatusText(try.Status))
	}
	return nil
}
