# Pays what comes on standard input: one line for each payment, and one for what came of it. A caller gives its version,
# and a function that returns a status and a body.
package Pay;
use strict;
use JSON::PP;

sub all {
    my ($version, $pay) = @_;
    $| = 1;
    my $say = sub { print JSON::PP->new->canonical->encode({@_}), "\n" };
    $say->(version => "$version");
    while (my $line = <STDIN>) {
        chomp $line;
        my ($token, $key, $body) = split /\t/, $line, 3;
        my ($status, $text) = $pay->($ENV{URL}, { Authorization => "Bearer $token",
            'Content-Type' => 'application/json', 'Idempotency-Key' => $key }, $body);
        $say->(key => $key, status => $status + 0, body => "$text");
    }
}
1;
