# LWP: it sends once. It tells a lost answer as status 500, as if the server had said so.
use strict;
use lib '.';
use LWP::UserAgent;
use Pay;

my $client = LWP::UserAgent->new(keep_alive => 1);
Pay::all($LWP::UserAgent::VERSION, sub {
    my ($url, $headers, $body) = @_;
    my $answer = $client->post($url, %$headers, Content => $body);
    return ($answer->code, $answer->decoded_content);
});
