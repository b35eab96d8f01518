"""One module per API: `handle(broker, request, context)` gives the response, at once or later."""
