# An MCP server with one tool, `stock`: a line of JSON in, a line of JSON out. Servers in earnest use a library.
use strict;
use warnings;

$| = 1;
my %stock = (bolts => 42, nuts => 7);
while (my $line = <STDIN>) {
    my ($id) = $line =~ /"id"\s*:\s*("[^"]*"|\d+)/ or next;    # else it is a notification
    my ($method) = $line =~ /"method"\s*:\s*"([^"]*)"/;
    my $result;
    if ($method eq 'initialize') {
        my ($version) = $line =~ /"protocolVersion"\s*:\s*"([^"]*)"/;
        $result = qq({"protocolVersion":"$version","capabilities":{"tools":{}},)
            . '"serverInfo":{"name":"warehouse","version":"1"}}';
    }
    elsif ($method eq 'tools/list') {
        $result = '{"tools":[{"name":"stock","description":"How many there are of a thing.","inputSchema":'
            . '{"type":"object","properties":{"thing":{"type":"string"}},"required":["thing"]}}]}';
    }
    elsif ($method eq 'tools/call') {
        my ($thing) = $line =~ /"thing"\s*:\s*"([^"]*)"/;
        my $number = $stock{$thing // ''} // 0;
        $result = qq({"content":[{"type":"text","text":"$number"}]});
    }
    my $said = $result ? qq("result":$result) : '"error":{"code":-32601,"message":"no such method"}';
    print qq({"jsonrpc":"2.0","id":$id,$said}\n);
}
