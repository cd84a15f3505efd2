<?php
// Pays what comes on standard input: a line for each payment, and one for its outcome. A caller includes this file
// and gives its version, and a function that returns a status and a body.
function pay_all(string $version, callable $pay): void
{
    echo json_encode(['version' => $version]), "\n";
    while (($line = fgets(STDIN)) !== false) {
        [$token, $key, $body] = explode("\t", rtrim($line, "\n"), 3);
        $headers = ['Authorization' => "Bearer $token", 'Content-Type' => 'application/json', 'Idempotency-Key' => $key];
        try {
            [$status, $text] = $pay(getenv('URL'), $headers, $body);
            $told = ['status' => $status, 'body' => $text];
        } catch (Throwable $error) {
            $told = ['error' => get_class($error) . ' ' . $error->getMessage()];
        }
        echo json_encode(['key' => $key] + $told), "\n";
    }
}
