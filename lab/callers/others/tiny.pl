# HTTP::Tiny: it sends once. It tells a lost answer as status 599.
use strict;
use lib '.';
use HTTP::Tiny;
use Pay;

my $client = HTTP::Tiny->new;
Pay::all($HTTP::Tiny::VERSION, sub {
    my ($url, $headers, $body) = @_;
    my $answer = $client->post($url, { headers => $headers, content => $body });
    return ($answer->{status}, $answer->{content});
});
