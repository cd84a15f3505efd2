<?php
// Guzzle with its own retry middleware, which repeats what it is told to: here what is lost, 409, 429 and 5xx.
require 'pay.php';
require '/usr/share/php/GuzzleHttp/autoload.php';
$decide = fn($tries, $request, $answer, $error) => $tries < 3 && ($error !== null || $answer !== null
    && (in_array($answer->getStatusCode(), [409, 429]) || $answer->getStatusCode() >= 500));
$stack = GuzzleHttp\HandlerStack::create();
$stack->push(GuzzleHttp\Middleware::retry($decide));
$client = new GuzzleHttp\Client(['handler' => $stack, 'http_errors' => false]);
pay_all((string) GuzzleHttp\Client::MAJOR_VERSION, function ($url, $headers, $body) use ($client) {
    $answer = $client->post($url, ['headers' => $headers, 'body' => $body]);
    return [$answer->getStatusCode(), (string) $answer->getBody()];
});
