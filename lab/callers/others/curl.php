<?php
// PHP's curl: libcurl sends again by itself when a used connection breaks.
require 'pay.php';
$curl = curl_init();
pay_all(PHP_VERSION . ', libcurl ' . curl_version()['version'], function ($url, $headers, $body) use ($curl) {
    $lines = array_map(fn($name) => "$name: $headers[$name]", array_keys($headers));
    curl_setopt_array($curl, [CURLOPT_URL => $url, CURLOPT_POSTFIELDS => $body, CURLOPT_HTTPHEADER => $lines,
        CURLOPT_RETURNTRANSFER => true]);
    $text = curl_exec($curl);
    if ($text === false) {
        throw new Exception(curl_error($curl));
    }
    return [curl_getinfo($curl, CURLINFO_RESPONSE_CODE), $text];
});
