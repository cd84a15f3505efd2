// Package webhooks takes in the messages that the PSP sends by itself. It checks whether a message is genuine (Standard
// Webhooks, https://www.standardwebhooks.com), stores it as it was signed, has it processed, and deletes it in the end.
// It owns the table webhook_events.
//
// It does not know what a message means for a payment, which queue holds the work (Job names it), and
// on which route a message arrives.
//
// What must always hold:
//
//   - A message that is not verified is not stored. There are two ways in: Receiver verifies and stores. Inbox only
//     stores, and is for callers that have verified.
//   - An event and the job that processes it are committed together, before the delivery is acknowledged. So an event
//     that was acknowledged is processed, and an event that was not is sent again.
//     An event that says nothing about us needs no job, and is stored as processed.
//   - One webhook-id is one event and one job, however often it is delivered, as long as the event is stored. That must
//     be longer than the sender repeats a delivery, and longer than the tolerance of its timestamp.
//   - An event changes once, when it is processed; only an operator may have it processed again. An event that is not
//     processed is never deleted.
//
// The process's clock decides how old a message is, because that happens before there is a row. Decisions about rows
// use the database's clock. No error of this package repeats a secret, a signature or a body.
package webhooks
