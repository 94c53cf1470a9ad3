# A store of keys and values: a file for each key in /data.
use IO::Socket::INET;
my $listening = IO::Socket::INET->new(LocalPort => 5000, Listen => 9, ReuseAddr => 1) or die;
while (my $client = $listening->accept) {
    my $line = <$client> // "";
    if ($line =~ /^GET (\w+)$/ and open my $file, "<", "/data/$1") { print {$client} <$file>; }
    if ($line =~ /^PUT (\w+) (.*)$/ and open my $file, ">", "/data/$1") { print {$file} "$2\n"; }
    close $client;
}
