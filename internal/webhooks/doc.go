// Package webhooks takes in what the PSP says of its own accord. It decides whether a message is genuine (Standard Webhooks,
// https://www.standardwebhooks.com), keeps it as it was signed, has it processed, and forgets it in the end. It owns the table
// webhook_events.
//
// It refuses to know what a message means for a payment, which queue the work waits in (EnqueueTx stands for it), and on which
// route a message comes in.
//
// What must always hold:
//
//   - What is not verified is not stored: the only ways in are Receiver, which does both, and Inbox, for those who did.
//   - An event and the job that processes it are committed together, before anybody says that the event was taken. So an
//     event that was acknowledged is processed, and one that was not is sent again.
//   - One webhook-id is one event and one job, however often it is delivered, at once or one after the other, for as long as
//     the event is kept. That must be longer than the sender goes on trying, and than the tolerance of the Verifier.
//   - An event changes once, when it is processed. One that is not is never deleted.
//
// The process's clock judges how old a message on the wire is, because the decision falls before there is a row. What
// concerns rows is decided by the database's clock. No error of this package repeats a secret, a signature or a body.
package webhooks
